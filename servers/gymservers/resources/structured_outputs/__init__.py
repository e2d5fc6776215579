"""structured_outputs: an answer must be a document of a format that fits a schema."""

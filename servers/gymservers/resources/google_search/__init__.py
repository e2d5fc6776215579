"""google_search: questions to be answered with a search engine and a browser."""

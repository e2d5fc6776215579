"""Sentences, words, languages and parts of speech, without a corpus to download."""

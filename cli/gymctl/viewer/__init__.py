"""A local web page of tasks and rollouts: an index over JSONL files, a JSON API, and the page itself.

`command` starts it; `server` is the API; `index`, `search`, `query` and `stats` are what it answers from.
Files are read and parsed by `worker` processes only, so that the server stays small and answers at once.
"""

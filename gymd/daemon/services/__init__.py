"""The daemon's thin wire shell: decode, call the domain, encode; errors are mapped once, at the return."""

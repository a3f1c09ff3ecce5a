"""Message routing: subjects, the wildcard trie, queue groups, and a table of known routes.

`sublist` looks a `subject` up by its `digest` in the table of `route`s; an unknown one is resolved
by the `trie` of `subscription`s. `pattern_set` is a fixed set of patterns: does one match, contain,
or meet?
"""

"""Who gets a message: subjects, the wildcard trie, queue groups, and a table of known routes."""

"""Who wants it: subjects, the wildcard trie, queue groups, and the routes already found."""

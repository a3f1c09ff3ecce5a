"""`seriatim cq`, `sendr` and `destn`: cquencer's own programs."""

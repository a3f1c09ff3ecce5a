"""The engine: etcd, where the cluster's view and the list of its members are.

`etcd` speaks its HTTP API, `etcd_requests` says what is asked of it, `etcd_keeper` keeps this
member's entry, and `view_keeper` the view. `engine_change` notices that etcd is another one.
"""

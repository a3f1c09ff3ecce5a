"""A member of a cluster: what its core (sequencer/replica) asks for, on sockets, files and etcd."""

"""The port that speaks cquencer's protocol, in netstrings over TCP.

`cquencer_port` has its epoll, framings and answers, and `cquencer_client` one connection to it.
`cquencer_service` accepts clients, paces them, and drains them at the end.
"""

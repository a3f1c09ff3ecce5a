"""The broker in memory, and a model of it: shared by tests/ and fuzz/, not installed.

stage.py         the real data plane with its conversation, replays and keeper, without sockets
peer.py          one connection: a session to the broker, a client to the test
manual_loop.py   an event loop that is advanced by hand
disk.py          a journal on a disk that runs out of room, or fails, on demand
model_*.py       what each client must receive, computed slowly from the protocol's description
world.py         a stage and its model, and the comparison of the two
programs.py      random programs, for comparing two builds
"""

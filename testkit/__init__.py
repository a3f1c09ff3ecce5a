"""The broker in memory, and a model of it: shared by tests/ and fuzz/, not installed.

stage.py         the real data plane with its conversation, replays and keeper, without sockets
peer.py          one connection: a session's face on one side, a client's on the other
manual_loop.py   an event loop that is moved by hand
disk.py          a journal on a disk that has no room, or fails, when it is told to
model_*.py       what each client must be told, written slowly from the protocol's description
world.py         a stage and the model of it, and whether both agree
programs.py      random programs, to compare two builds by
"""

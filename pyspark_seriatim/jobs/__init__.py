"""The jobs besides the source and the sink: each is a command, and a file for spark-submit.

`archive`, `audit`, `replay`, `stats`, `cardinal` and `bundle` have a room each: `__main__` and
`NAME_job` are the command, the others its parts. `running` has what all need, and `filelog` the
list of a table's files, changed in one step.
"""

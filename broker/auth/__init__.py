"""Users: which of them a client is, and what it may do.

`users` makes users of the settings, `authenticator` finds the one that a CONNECT proves to be.
`passwords` checks bcrypt in a thread, `known_secrets` remembers the right ones, and `attempts`
makes a guesser wait. `application_claims` says whose an application of batches is.

`broker.clients.admission` asks the authenticator; the data plane asks the user's guard.
"""

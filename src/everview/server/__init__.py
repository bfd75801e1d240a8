"""A store that one process holds and others ask, through a local socket.

    everview serve, run --follow:   Server ── answers with ──→ LocalAccess ──→ database.py
    query, changes, status, shell:  ServedAccess ── socket ──→ Server

`access.py` says what can be asked of a store, and answers it in this process; `client.py` asks the server
the same. `socket_file.py` has the socket, `protocol.py` the messages, `rows.py` the rows of an answer,
`server.py` the server. A client imports neither Spark nor the parser.
"""

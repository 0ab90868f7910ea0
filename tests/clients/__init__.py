"""Real S3 clients, each of which gets an endpoint and nothing else of ours.

A client runs the steps of `clients.steps` in a process of its own, and prints what it read as one line of JSON. The
tests compare the line with the content that was written. Clients that the development environment has run in
`test_clients_at_hand.py`, within `make test`. All others are installed by `make clients` into `.venv-clients` (Python)
and `build/clients` (Node, Go), and run in `test_installed_clients.py`, by `make test-clients`.

| Where | Clients |
|---|---|
| `libraries.py` | boto3, s3fs, pyarrow, polars, DuckDB, obstore, deltalake |
| `command_lines.py` | AWS CLI, s5cmd, rclone, s3cmd, curl |
| `node/client.mjs` | aws-sdk-js v3 |
| `go/sdk/main.go` | aws-sdk-go-v2 |
"""

"""The command line: one file per command, the only prints and exit codes."""

"""``python -m insitu`` is the ``insitu`` command."""

from insitu.orchestrator.cli import main

if __name__ == "__main__":
    main()

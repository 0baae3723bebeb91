"""Everything between a submitted plan and a printed answer; the rooms are listed in CONTRIBUTING.md."""

"""Small programs that make the input of ready-made subjects; executed by plans, imported by nobody."""

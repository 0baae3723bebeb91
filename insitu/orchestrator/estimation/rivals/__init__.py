"""Which of two laws the trials speak for."""

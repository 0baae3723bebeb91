"""Laws refitted on achieved levels, with intervals and diagnostics; answers to what-if questions."""

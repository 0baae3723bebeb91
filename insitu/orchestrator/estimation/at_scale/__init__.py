"""Laws fitted to any number of rows: one more trial in constant time, tables of any size in bounded memory."""

"""The numbers behind optimal designs, which know of rows of derivatives and not of plans."""

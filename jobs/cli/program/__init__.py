"""The command line as a whole: how its help is laid out, its versions, and its log."""

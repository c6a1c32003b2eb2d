"""The written forms of languages: LTLf and regular expressions, with the column of every fault."""

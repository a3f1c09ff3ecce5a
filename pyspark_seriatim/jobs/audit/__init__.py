"""The proof that a range of numbers, or an archive, is whole: one pass, and what it found."""

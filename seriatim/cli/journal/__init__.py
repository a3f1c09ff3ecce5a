"""`seriatim journal`: what a store holds, shown, exported and repaired."""

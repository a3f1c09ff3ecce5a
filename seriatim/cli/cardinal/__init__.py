"""`seriatim cardinal`: producing, consuming and inspecting Cardinal Streams."""

"""`seriatim top`: the live view of a broker in a terminal, from its monitoring pages.

    top_command    the command: its options, and which of the ways below shows the broker
    page_reader    reads pages over HTTP, also on a thread of its own
    page_values    values of a page, whatever the page has instead
    broker_watch   pages to figures, rates and rows; rows are made in broker_rows
    amounts_shown  numbers, sizes and times as short texts
    row_tables     the views: their columns, sorting and filter; row_detail has all of one row
    top_heading    the lines above the views
    top_screen     the state of the screen: keys in, lines out
    terminal       the terminal: its modes and signals, restored on every way out; terminal_keys
    live_view      the loop that joins them
    plain_view     one snapshot as text or JSON, and a line for each interval

Only `terminal` and `live_view` need a terminal, and only the page modules a network.

It is made with rich, which every command has anyway, and not with textual. Both were tried with a
table of a thousand rows: rich had the first screen after 0.09 s and took 33 ms for each refresh;
textual took 0.55 s and 220 ms, 49 MB of memory instead of 18, and 9 MB of disk. Textual also paints
its own background, takes the mouse from the terminal, and asks terminals questions that a simple
one prints.
"""

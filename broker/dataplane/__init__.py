"""Every message's way from a read event to the outboxes: the plane, the gate, links and frames."""

"""The live page at `/` of the monitoring port: what a browser shows, and what it asks for.

    assets            the files in static/, sent as they are: no build step, no other host
    live              /live: the figures of /varz once a second, while someone looks
    recent_subjects   /recentz: the subjects of the newest messages
    page_messages     /messages: messages of the journal, and new ones; off unless it is set

All else comes from the pages that tools read: /connz, /jsz, /routez, /journalz, /replayz.
"""

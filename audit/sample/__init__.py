"""`make audit`: a broker and clients of its own, incidents planted with them, and the audit of what that left behind.

broker.py      a `kohort serve` process on a free port of loopback
member.py      a consumer process that does as it is told, for good or ill
incidents.py   what is made to happen, group by group
__main__.py    all of it, then `kohort audit`
"""

"""`make audit`: starts a broker and clients, makes incidents happen with them, and audits the log that they leave.

broker.py      a `kohort serve` process on a free port of loopback
member.py      a consumer process that follows orders, also harmful ones
incidents.py   the incidents, group by group
__main__.py    runs all of it, then `kohort audit`
"""

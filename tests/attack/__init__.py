"""What one client can do to the others: extreme requests, and a bystander that must be answered meanwhile.

Read in this order:

    extremes.py         the largest requests that the schemas allow, for every served API
    stories.py          attacks that need a state first, written by hand: a large group, a bomb in a batch
    transactions.py     those on transactions
    shares.py           those on share groups
    story.py            requests for these three
    plan.py             which attacks are run
    bystander.py        a process that asks ApiVersions every 5 ms and remembers its longest wait
    target.py           the broker under attack: its process, its memory, its CPU time
    attacker.py         sends one attack and measures it
    arena.py            broker and bystander, for one attack after the other
    report.py           figures, goals, the table for docs/performance.md
    __main__.py         `make attack`: for an hour, from a seed
    test_bystander.py   the short form, in `make test`
"""

"""`make rewrite`: plays every scene and writes what was said below its lines. Look at the difference."""

from tests.transcripts.scene import played, transcripts

for path in transcripts():
    before = path.read_text(encoding="utf-8")
    after = played(before)
    path.write_text(after, encoding="utf-8")
    print(path.name, "is unchanged" if after == before else "has changed")

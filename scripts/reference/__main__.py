from scripts.reference import FOLDER, PAGES

FOLDER.mkdir(exist_ok=True)
for name, page in PAGES.items():
    (FOLDER / name).write_text(page(), encoding="utf-8")

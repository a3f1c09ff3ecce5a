"""The repository's paths, whatever folder a test is in."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
VECTORS = TESTS / "vectors"

"""Makes the benchmark importable: it belongs to the repository, not to the distribution."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

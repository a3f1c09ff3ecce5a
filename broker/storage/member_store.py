"""Checks if a store is a member of a cluster: then it has the file `cluster/member.json`.

A member's journal is the cluster's, and only the cluster gives it numbers. So nothing else may
write it: a single broker would give numbers that the other members give to other messages.
"""

import json
import os
from typing import Final

from sequencer.journal.errors import StoreError

FOLDER: Final = "cluster"  # in the store's directory
FILE: Final = "member.json"


def cluster_of(store_dir: str) -> str:
    """Return the name of the cluster whose member this store is; empty: of none."""
    try:
        with open(os.path.join(store_dir, FOLDER, FILE), "rb") as file:
            return str(json.loads(file.read())["cluster"])
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (ValueError, KeyError, TypeError):
        return "(its name cannot be read)"


def refuse_member(store_dir: str, advice: str) -> None:
    """Refuse to write a store that is a member. `advice` may contain NAME and FOLDER."""
    name = cluster_of(store_dir)
    if name:
        raise StoreError(
            f"{store_dir}: this store is a member of the cluster {name}; "
            + advice.replace("NAME", name).replace("FOLDER", os.path.join(store_dir, FOLDER))
        )

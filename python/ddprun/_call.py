"""A worker of ddprun.launch(): python _call.py FOLDER."""

import os
import pickle
import sys


def main() -> None:
    folder, rank = sys.argv[1], os.environ["RANK"]
    with open(os.path.join(folder, "call"), "rb") as file:
        sys.path[:] = pickle.load(file)
        function, arguments = pickle.load(file)
    result = function(*arguments)
    # The class of the result may be one that the call contains.
    dumps = getattr(sys.modules.get("cloudpickle"), "dumps", pickle.dumps)
    with open(os.path.join(folder, f"result_{rank}"), "wb") as file:
        pickle.dump(int(os.environ["WORLD_SIZE"]), file)
        file.write(dumps(result))


if __name__ == "__main__":
    main()

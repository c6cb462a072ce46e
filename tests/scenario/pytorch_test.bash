#!/usr/bin/env bash
# PyTorch's own client against the store: two workers, one of which dies once. Skipped (77) where there is no PyTorch.
# Usage: pytorch_test.bash FOLDER_OF_DDPRUN FOLDER_OF_THIS_FILE
set -euo pipefail
export PYTHON_EXEC=/usr/bin/python3
"${PYTHON_EXEC}" -c 'import torch.distributed' 2>/dev/null || exit 77
output="$("$1/ddprun" --nproc_per_node=2 --max_restarts=1 "$2/pytorch_worker.py" 2>&1)" || { echo "${output}"; exit 1; }
echo "${output}"
for line in "attempt 0, turn 1: 8" "attempt 1, turn 1: 8" "attempt 1, turn 2: 8"; do
  test "$(grep -c ":${line}$" <<<"${output}")" -eq 2
done

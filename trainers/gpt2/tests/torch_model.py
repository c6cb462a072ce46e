"""The language model of gpt2 has the losses, gradients and steps of the same one in PyTorch.

    torch_model.py PROGRAM    that prints them; see gpt2_gradients.cpp
"""
import json
import subprocess
import sys

import torch
import torch.nn.functional as F

# Both compute in float64 and sum in different orders.
TOLERANCE = 1e-10

ours = json.loads(subprocess.run(sys.argv[1:], check=True, stdout=subprocess.PIPE).stdout)


def tensor(values, shape):
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


parameters = {name: tensor(one["values"], one["shape"]).requires_grad_()
              for name, one in ours["parameters"].items()}
tokens = torch.tensor(ours["tokens"]).reshape(-1, ours["context"])
targets = torch.tensor(ours["targets"])


def of(name):
    return parameters[f"transformer.{name}.weight"], parameters[f"transformer.{name}.bias"]


def normalise(x, name):
    return F.layer_norm(x, x.shape[-1:], *of(name))


def attend(x, name):
    sequences, context, channels = x.shape
    heads = (sequences, context, ours["heads"], channels // ours["heads"])
    q, k, v = (part.reshape(heads).transpose(1, 2)
               for part in F.linear(x, *of(f"{name}.c_attn")).chunk(3, dim=-1))
    scores = q @ k.transpose(-1, -2) / heads[-1] ** 0.5
    later = torch.ones(context, context).triu(1).bool()
    weights = scores.masked_fill(later, float("-inf")).softmax(-1)
    return F.linear((weights @ v).transpose(1, 2).reshape(x.shape), *of(f"{name}.c_proj"))


def loss_of_model():
    table = parameters["transformer.wte.weight"]
    x = F.embedding(tokens, table) + parameters["transformer.wpe.weight"]
    for layer in range(ours["layers"]):
        name = f"h.{layer}"
        x = x + attend(normalise(x, f"{name}.ln_1"), f"{name}.attn")
        hidden = F.linear(normalise(x, f"{name}.ln_2"), *of(f"{name}.mlp.c_fc"))
        x = x + F.linear(F.gelu(hidden, approximate="tanh"), *of(f"{name}.mlp.c_proj"))
    # Rows of the table beyond the vocabulary are padding.
    logits = F.linear(normalise(x, "ln_f"), table[:ours["vocabulary"]])
    return F.cross_entropy(logits.flatten(0, 1), targets)


def largest_difference(what, tensors):
    return max((tensor(ours["parameters"][name][what], one.shape) - one).abs().max().item()
               for name, one in tensors.items())


optimizer = torch.optim.AdamW(
    [{"params": [p for p in parameters.values() if p.dim() == 2],
      "weight_decay": ours["weight_decay"]},
     {"params": [p for p in parameters.values() if p.dim() == 1], "weight_decay": 0.0}],
    betas=ours["betas"], eps=1e-8)
for step, (loss, norm, rate) in enumerate(zip(ours["losses"], ours["norms"], ours["rates"])):
    optimizer.zero_grad()
    expected = loss_of_model()
    expected.backward()
    assert abs(expected.item() - loss) < TOLERANCE, (step, expected.item(), loss)
    if step == 0:
        gradients = {name: one.grad for name, one in parameters.items()}
        difference = largest_difference("gradient", gradients)
        assert difference < TOLERANCE, difference
        assert min(one.abs().max() for one in gradients.values()) > 1e-6
    expected_norm = torch.nn.utils.clip_grad_norm_(parameters.values(),
                                                   ours["gradient_norm_max"])
    assert abs(expected_norm.item() - norm) < 1e-6, (expected_norm, norm)
    assert norm > ours["gradient_norm_max"]
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
# The scaled steps of Adam amplify the last bits of a gradient near zero.
difference = largest_difference("updated", parameters)
assert difference < 1e-7, difference
print("passed")

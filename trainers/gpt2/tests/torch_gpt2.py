"""The model, optimizer and clipping of gpt2 in PyTorch, as a user who wants it fast writes them.

It is the other side of gpt2_vs_torch. Attention is PyTorch's fused one where there is PyTorch 2;
on a GPU matrix products are bfloat16 by autocast (or TF32) and AdamW is the fused one. Tokens are
random and on the device from the start. Prints one JSON line a step: {"seconds": ..., "loss": ...}.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

HAS_FUSED_ATTENTION = hasattr(F, "scaled_dot_product_attention")


class Block(nn.Module):
    def __init__(self, channels, heads, context):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.projections = nn.Linear(channels, 3 * channels)
        self.attended = nn.Linear(channels, channels)
        self.hidden = nn.Linear(channels, 4 * channels)
        self.contraction = nn.Linear(4 * channels, channels)
        if not HAS_FUSED_ATTENTION:
            later = torch.ones(context, context).triu(1).bool()
            self.register_buffer("later", later, persistent=False)

    def attend(self, x):
        sequences, context, channels = x.shape
        size = channels // self.heads
        q, k, v = (part.view(sequences, context, self.heads, size).transpose(1, 2)
                   for part in self.projections(x).split(channels, dim=2))
        if HAS_FUSED_ATTENTION:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * size ** -0.5
            y = scores.masked_fill(self.later, float("-inf")).softmax(-1) @ v
        return self.attended(y.transpose(1, 2).reshape(sequences, context, channels))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        hidden = F.gelu(self.hidden(self.norm2(x)), approximate="tanh")
        return x + self.contraction(hidden)


class Model(nn.Module):
    def __init__(self, options):
        super().__init__()
        channels = options.channels
        self.tokens = nn.Embedding(options.vocabulary, channels)
        self.positions = nn.Embedding(options.context, channels)
        self.blocks = nn.ModuleList(Block(channels, options.heads, options.context)
                                    for _ in range(options.layers))
        self.norm = nn.LayerNorm(channels)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("layers", "heads", "channels", "context", "vocabulary", "batch_size", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def main():
    options = parse_arguments()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    is_cuda = options.device == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = True
    model = Model(options).to(options.device)
    decays = [p for p in model.parameters() if p.dim() == 2]
    stays = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decays, "weight_decay": 0.1}, {"params": stays, "weight_decay": 0.0}],
        lr=6e-4, betas=(0.9, 0.95), **({"fused": True} if is_cuda else {}))
    run = torch.compile(model) if options.compile else model
    shape = (options.batch_size, options.context + 1)
    for _ in range(options.steps):
        batch = torch.randint(options.vocabulary, shape).to(options.device)
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, torch.bfloat16, enabled=options.dtype == "bfloat16"):
            loss = run(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.item()  # waits for the device
        print(json.dumps({"seconds": time.perf_counter() - start, "loss": value}), flush=True)


if __name__ == "__main__":
    main()

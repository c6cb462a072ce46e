"""A model split over two workers, fed with micro-batches by send and recv, equals the whole."""
import torch
import torch.distributed as dist

STEPS, MICRO_BATCHES, SAMPLES = 5, 4, 8  # samples in a micro-batch
LEARNING_RATE = 0.1

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)  # the same model and data on both ranks
front = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh())
back = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
whole = torch.nn.Sequential(front, back)
inputs = torch.randn(STEPS, MICRO_BATCHES, SAMPLES, 6)
targets = torch.randn(STEPS, MICRO_BATCHES, SAMPLES, 3)


def loss_of(outputs, targets):
    return torch.nn.functional.mse_loss(outputs, targets) / MICRO_BATCHES


def unsplit_parameters():
    """Parameters of this rank's half after the same steps of the whole model from equal values."""
    start = {name: value.clone() for name, value in whole.state_dict().items()}
    optimizer = torch.optim.SGD(whole.parameters(), lr=LEARNING_RATE)
    for step in range(STEPS):
        optimizer.zero_grad()
        for micro in range(MICRO_BATCHES):
            loss_of(whole(inputs[step, micro]), targets[step, micro]).backward()
        optimizer.step()
    trained = [parameter.detach().clone() for parameter in (front, back)[rank].parameters()]
    whole.load_state_dict(start)
    return trained


def step_of_front(step):
    outputs, sending = [], []
    for micro in range(MICRO_BATCHES):
        outputs.append(front(inputs[step, micro]))
        sending.append(dist.isend(outputs[-1].detach(), dst=1, tag=micro))
    gradient = torch.empty(SAMPLES, 16)
    for micro, output in enumerate(outputs):
        dist.recv(gradient, src=1, tag=micro)
        output.backward(gradient)
    for work in sending:
        work.wait()


def step_of_back(step):
    for micro in range(MICRO_BATCHES):
        activation = torch.empty(SAMPLES, 16)
        dist.recv(activation, src=0, tag=micro)
        activation.requires_grad_()
        loss_of(back(activation), targets[step, micro]).backward()
        dist.send(activation.grad, dst=0, tag=micro)


expected = unsplit_parameters()
mine = (front, back)[rank]
optimizer = torch.optim.SGD(mine.parameters(), lr=LEARNING_RATE)
for step in range(STEPS):
    optimizer.zero_grad()
    (step_of_front, step_of_back)[rank](step)
    optimizer.step()
for parameter, unsplit in zip(mine.parameters(), expected):
    assert torch.equal(parameter, unsplit)  # the same operations in the same order
dist.barrier()
dist.destroy_process_group()
print("passed")

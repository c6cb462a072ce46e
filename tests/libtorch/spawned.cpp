// A LibTorch program that spawns its workers in the first statement of main(), as users do.
// LibTorch's libraries have created threads by then.
#include <ddprun/spawn.hpp>
#include <ddprun/torch.hpp>

#include <ATen/ops/full.h>

int main() {
  ddprun::spawn(
      [](const ddprun::WorkerEnv& env) {
        auto group = ddprun::ProcessGroup::create(env);
        const at::Tensor value = at::full({1000, 1000}, env.rank + 1.0);
        group.all_reduce(ddprun::torch::as_buffer(value)).wait();
        if (value.sum().item<double>() != 3e6)
          throw ddprun::Error(ddprun::Errc::internal, "wrong sum");
      },
      2);
}

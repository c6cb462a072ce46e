// A worker with collectives on a real GPU, for tests/gpu/run. Prints a line for its table, or the
// reason of a failure.
//   device_collectives check CALLS    random calls, results compared with serial ones
//   device_collectives time BYTES     the median of all_reduce
//   device_collectives death          the last rank dies; time until the others detect it
//   device_collectives graph          all_reduce in a CUDA graph, results compared
//   device_collectives graph_death    the same as death, while the others launch such a graph
//   device_collectives restart        death in the first attempt, check in the next one
//   device_collectives reducer        a step of a reducer of GPT-2's gradients, and zeroing them
#include "tests/support/random_calls.hpp"
#include <ddprun/error.hpp>
#include <ddprun/gradient_reducer.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/worker_env.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

using namespace ddprun;

namespace {

using Clock = std::chrono::steady_clock;

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

Device own_device(const WorkerEnv& env) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  const Device device{.kind = Device::Kind::cuda, .index = env.local_rank % devices};
  check(cudaSetDevice(device.index), "cudaSetDevice");
  return device;
}

Buffer floats_on(Device device, const std::shared_ptr<void>& memory, std::size_t bytes) {
  return {memory.get(), bytes / sizeof(float), DataType::float32, device};
}

std::shared_ptr<void> allocate_on_device(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  check(cudaMemset(memory, 0, bytes), "cudaMemset");
  return {memory, cudaFree};
}

void copy(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
}

std::string compare(ProcessGroup& group, Device device, int calls) {
  test::RandomCalls random(group, 11, {}, test::Arithmetic::in_any_order);
  random.use_device({device, allocate_on_device, copy});
  const auto outcome = random.run(calls);
  if (outcome != "ok") throw std::runtime_error(outcome);
  return std::to_string(calls) + " random calls as the serial ones";
}

std::string time_all_reduce(ProcessGroup& group, Device device, std::size_t bytes) {
  const auto memory = allocate_on_device(bytes);
  const Buffer buffer = floats_on(device, memory, bytes);
  constexpr int kRounds = 21;
  std::vector<double> microseconds;
  for (int i = 0; i < kRounds; ++i) {
    group.barrier().wait();
    const auto begin = Clock::now();
    group.all_reduce(buffer).wait();
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    microseconds.push_back(took.count());
  }
  std::sort(microseconds.begin(), microseconds.end());
  return "all_reduce of " + std::to_string(bytes) +
         " bytes: " + std::to_string(static_cast<long>(microseconds[kRounds / 2])) + " us";
}

/// all_reduce of a buffer as a graph, destroyed before its group.
class GraphOfAllReduce {
 public:
  GraphOfAllReduce(ProcessGroup& group, Buffer buffer) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    group.set_stream(stream_);
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    group.all_reduce(buffer).hold(stream_);
    check(cudaStreamEndCapture(stream_, &graph_), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&launched_, graph_, 0), "cudaGraphInstantiate");
  }
  GraphOfAllReduce(const GraphOfAllReduce&) = delete;
  GraphOfAllReduce& operator=(const GraphOfAllReduce&) = delete;
  ~GraphOfAllReduce() {
    cudaGraphExecDestroy(launched_);
    cudaGraphDestroy(graph_);
    cudaStreamDestroy(stream_);
  }

  void launch() { check(cudaGraphLaunch(launched_, stream_), "cudaGraphLaunch"); }
  void wait() { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t launched_ = nullptr;
};

std::string launch_graph(ProcessGroup& group, Device device) {
  constexpr std::size_t kBytes = 1 << 16;
  constexpr int kLaunches = 10;
  const auto memory = allocate_on_device(kBytes);
  const Buffer buffer = floats_on(device, memory, kBytes);
  std::vector<float> values(buffer.elements, 1.0F);
  copy(buffer.data, values.data(), kBytes);
  group.all_reduce(buffer).wait();
  GraphOfAllReduce graph(group, buffer);
  const auto begin = Clock::now();
  for (int i = 0; i < kLaunches; ++i) graph.launch();
  graph.wait();
  const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
  // A power of the number of ranks, small enough to be exact.
  float expected = 1;
  for (int i = 0; i < 1 + kLaunches; ++i) expected *= static_cast<float>(group.size());
  copy(values.data(), buffer.data, kBytes);
  if (values != std::vector<float>(buffer.elements, expected))
    throw std::runtime_error("launches of a graph give other sums than calls");
  group.set_stream(nullptr);
  return "all_reduce in a graph as called: " +
         std::to_string(static_cast<long>(took.count() / kLaunches)) + " us a launch";
}

std::string await_failure(ProcessGroup& group, Device device, bool is_in_graph) {
  constexpr std::size_t kBytes = 1 << 20;
  const auto memory = allocate_on_device(kBytes);
  const Buffer buffer = floats_on(device, memory, kBytes);
  group.all_reduce(buffer).wait();
  std::optional<GraphOfAllReduce> graph;
  if (is_in_graph) graph.emplace(group, buffer);
  if (group.rank() == group.size() - 1) ::kill(::getpid(), SIGKILL);
  const auto begin = Clock::now();
  try {
    if (is_in_graph) {
      graph->launch();
      graph->wait();
    }
    group.all_reduce(buffer).wait();
  } catch (const PeerFailed& failure) {
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    std::printf("rank %d detected the death of rank %d after %.0f ms\n", group.rank(),
                failure.rank(), took.count());
    std::fflush(stdout);
    if (failure.rank() != group.size() - 1 || took > std::chrono::seconds(1)) throw;
    return {};
  }
  throw std::runtime_error("the collective with a dead rank ended");
}

/// Attempts after the first must use a device that killed processes have used.
std::string compute_after_death(ProcessGroup& group, Device device, int attempt) {
  if (attempt > 0) return compare(group, device, 50) + " after a restart";
  return await_failure(group, device, false);
}

/// Lengths of the gradients of GPT-2 with 124 million parameters.
std::vector<std::size_t> gradients_of_gpt2() {
  constexpr std::size_t kChannels = 768;
  std::vector<std::size_t> lengths = {50304 * kChannels, 1024 * kChannels};
  for (int layer = 0; layer < 12; ++layer) {
    for (const std::size_t width : {3, 1, 4, 4}) {
      lengths.push_back(width * kChannels * kChannels);
      lengths.push_back(width * kChannels);
    }
    lengths.insert(lengths.end(), 4, kChannels);
  }
  return lengths;
}

/// Median times of `step` on the host and on the stream, after three to warm up.
std::string median_times(cudaStream_t stream, const std::function<void()>& step) {
  constexpr int kRounds = 21;
  std::vector<double> host;
  std::vector<float> device;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  for (int i = -3; i < kRounds; ++i) {
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    const auto start = Clock::now();
    step();
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i < 0) continue;
    host.push_back(took.count());
    device.push_back(milliseconds * 1000);
  }
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  std::sort(host.begin(), host.end());
  std::sort(device.begin(), device.end());
  return std::to_string(std::lround(host[kRounds / 2])) + " us of the host, " +
         std::to_string(std::lround(device[kRounds / 2])) + " us of the device";
}

std::string time_reducer(ProcessGroup& group, Device device) {
  std::vector<std::shared_ptr<void>> memory;
  std::vector<Parameter> parameters;
  for (const std::size_t length : gradients_of_gpt2()) {
    memory.push_back(allocate_on_device(length * sizeof(float)));
    parameters.push_back({"p" + std::to_string(parameters.size()),
                          floats_on(device, memory.back(), length * sizeof(float))});
  }
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  group.set_stream(stream);
  std::string line;
  {
    GradientReducer reducer(group, parameters);
    const auto zeroing = median_times(stream, [&] { reducer.zero_gradients(); });
    const auto step = median_times(stream, [&] {
      reducer.zero_gradients();
      reducer.begin();
      for (std::size_t i = parameters.size(); i-- > 0;) reducer.ready(i, stream);
      reducer.finish(stream);
    });
    reducer.synchronise();
    line = std::to_string(parameters.size()) + " gradients: " + step +
           " a step; zeroing alone: " + zeroing;
  }
  group.set_stream(nullptr);
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return line;
}

int work(const WorkerEnv& env, const std::vector<std::string>& arguments) {
  const Device device = own_device(env);
  auto group = ProcessGroup::create(env, {.backend = "nccl"});
  const std::string& what = arguments.at(0);
  std::string line;
  if (what == "check") line = compare(group, device, std::stoi(arguments.at(1)));
  if (what == "time") line = time_all_reduce(group, device, std::stoull(arguments.at(1)));
  if (what == "death") line = await_failure(group, device, false);
  if (what == "graph") line = launch_graph(group, device);
  if (what == "graph_death") line = await_failure(group, device, true);
  if (what == "restart") line = compute_after_death(group, device, env.restart_count);
  if (what == "reducer") line = time_reducer(group, device);
  if (group.rank() == 0 && !line.empty()) std::printf("%s\n", line.c_str());
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  // The agent sends it to the survivors of a death, which are to detect it by themselves.
  std::signal(SIGTERM, SIG_IGN);
  try {
    return work(from_process_environment(), {arguments + 1, arguments + count});
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "device_collectives: %s\n", exception.what());
    return 1;
  }
}

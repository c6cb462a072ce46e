#include "worker_runtime/preflight/exam.hpp"

#include <exception>
#include <future>
#include <memory>
#include <thread>

namespace ddprun::preflight {

namespace {

Exam attempt(const Examine& examine, Progress& progress) {
  try {
    return examine(progress);
  } catch (const std::exception& failure) {
    return {.name = progress.device(), .problem = failure.what()};
  }
}

}  // namespace

LimitedExam examine_by(Deadline deadline, const Examine& examine) {
  // Shared with the thread, which may outlive this function.
  const auto progress = std::make_shared<Progress>();
  std::packaged_task<Exam()> task([examine, progress] { return attempt(examine, *progress); });
  auto done = task.get_future();
  std::thread thread(std::move(task));
  if (done.wait_until(deadline.time()) == std::future_status::ready) {
    thread.join();
    return {.exam = done.get()};
  }
  thread.detach();
  return {.exam = {.name = progress->device(),
                   .problem = "it has not answered " + deadline.describe() + progress->doing()},
          .is_hung = true};
}

}  // namespace ddprun::preflight

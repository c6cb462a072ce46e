#include "worker_runtime/ddp/reducer_impl.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <utility>

namespace ddprun {

GradientReducer::GradientReducer(ProcessGroup group, std::vector<Parameter> parameters,
                                 std::vector<Buffer> state, ReducerOptions options)
    : impl_(std::make_unique<Impl>(std::move(group), std::move(parameters), std::move(state),
                                   std::move(options))) {}
GradientReducer::GradientReducer(GradientReducer&&) noexcept = default;
GradientReducer& GradientReducer::operator=(GradientReducer&&) noexcept = default;
GradientReducer::~GradientReducer() = default;

Buffer GradientReducer::gradient(std::size_t index) const {
  return impl_->gradient(index);
}
std::shared_ptr<const void> GradientReducer::memory(std::size_t index) const {
  return impl_->memory(index);
}
const BucketPlan& GradientReducer::plan() const {
  return impl_->layout().plan();
}
std::size_t GradientReducer::layout() const {
  return impl_->layout().number();
}
void GradientReducer::zero_gradients() {
  impl_->zero_gradients();
}
void GradientReducer::begin_forward(bool synchronise) {
  impl_->begin_forward(synchronise);
}
void GradientReducer::begin(bool synchronise) {
  impl_->begin(synchronise);
}
void GradientReducer::ready(std::size_t index) {
  impl_->ready(index);
}
void GradientReducer::ready(std::size_t index, void* stream) {
  impl_->ready(index, stream);
}
void GradientReducer::ready_all(std::span<const std::size_t> indices) {
  for (const auto index : indices) impl_->ready(index);
}
void GradientReducer::unused(std::size_t index) {
  impl_->unused(index);
}
void GradientReducer::discard(std::size_t index) {
  impl_->discard(index);
}
StepTimeline GradientReducer::finish(Deadline deadline) {
  return impl_->finish(deadline);
}
StepTimeline GradientReducer::finish(void* stream) {
  return impl_->finish(stream);
}
void GradientReducer::synchronise(Deadline deadline) {
  impl_->synchronise(deadline);
}
bool GradientReducer::is_used(std::size_t index) const {
  return impl_->is_used(index);
}
DdpLoggingData GradientReducer::logging_data() const {
  return impl_->logging_data();
}
void GradientReducer::join(const std::function<void()>& after_step) {
  impl_->join(after_step);
}

}  // namespace ddprun

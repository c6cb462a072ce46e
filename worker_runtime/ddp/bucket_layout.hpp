// Memory of a reducer's buckets and position of each gradient in it. One thread at a time; returned
// memory may be used by any thread.
#pragma once

#include "worker_runtime/ddp/tensor_work.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <memory>
#include <span>
#include <vector>

namespace ddprun {

class BucketLayout {
 public:
  /// `memory`: zeroed memory of each bucket with elements. `work` and `parameters`, which must have
  /// shapes, must outlive this object. `number` identifies the layout within a reducer.
  BucketLayout(const TensorWork& work, BucketPlan plan, std::vector<std::shared_ptr<void>> memory,
               std::span<const Parameter> parameters, ReduceOp op, std::size_t number);

  const BucketPlan& plan() const { return plan_; }
  std::size_t number() const { return number_; }
  std::span<const BucketView> views() const { return views_; }
  const Buffer& gradient(std::size_t parameter) const { return gradients_[parameter]; }
  /// Memory that contains the gradient; null if it has no elements.
  const std::shared_ptr<void>& memory(std::size_t parameter) const {
    return memory_[buckets_[parameter]];
  }
  /// Bucket index of each parameter.
  std::span<const std::size_t> buckets() const { return buckets_; }

  void zero(void* stream);

  /// Copies all gradients from `other`, a layout of the same parameters.
  void copy_from(const BucketLayout& other, void* stream);

 private:
  const TensorWork& work_;
  BucketPlan plan_;
  std::size_t number_;
  std::vector<std::shared_ptr<void>> memory_;       // by bucket
  std::vector<std::vector<BucketGradient>> parts_;  // by bucket
  std::vector<BucketView> views_;                   // by bucket
  std::vector<Buffer> gradients_;                   // by parameter
  std::vector<std::size_t> buckets_;                // by parameter
};

}  // namespace ddprun

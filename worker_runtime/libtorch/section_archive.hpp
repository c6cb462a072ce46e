// Sections of checkpoints as LibTorch's archives: trees of values with names.
#pragma once

#include <ddprun/checkpoint.hpp>
#include <ddprun/error.hpp>

#include <torch/serialize/archive.h>

#include <exception>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace ddprun::torch {

/// Throws Error{Errc::usage}.
[[noreturn]] void refuse_section(const std::string& section, const std::string& reason);

/// What `call` returns. Throws Error{Errc::usage} for what LibTorch throws, or what it calls, such
/// as std::stoull(): the section, `reason` and its words.
template <typename Call>
auto in_words(const std::string& section, const std::string& reason, const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::Error& error) {
    refuse_section(section, reason + ": " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    refuse_section(section, reason + ": " + error.what());
  }
}

/// What `write` writes into an archive.
void put_archive(Checkpoint& checkpoint, const std::string& section,
                 const std::function<void(::torch::serialize::OutputArchive&)>& write);

/// Throws Error{Errc::usage} if there is none.
::torch::serialize::InputArchive get_archive(const Checkpoint& checkpoint,
                                             const std::string& section);

/// The reason for what LibTorch itself does not take.
inline constexpr const char* kSomethingElse = "is of something else";

struct NamedValue {
  std::string name;  ///< "encoder.0.weight"
  c10::IValue value;
};

/// All values, those of nested archives as well, in the order in which they were written.
std::vector<NamedValue> values_of(::torch::serialize::InputArchive& archive);

}  // namespace ddprun::torch

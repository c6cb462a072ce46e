// Which process made an object. A forked child has copies of its parent's objects, but none of the
// threads that serve them, and their sockets and shared memory are the parent's. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace ddprun {

/// Belongs to the process that made it. Not getpid(), which is a system call each time.
class OwnProcess {
 public:
  OwnProcess() noexcept : forks_(forks()) {}

  /// False in a child that was forked since. As cheap as reading a variable.
  bool is_this() const noexcept { return forks_ == forks(); }

  /// Throws Error{Errc::usage} in such a child: "THING belongs to the parent of this process; ...".
  void require(const std::string& thing, const char* remedy) const {
    if (!is_this()) refuse(thing, remedy);
  }

 private:
  /// Between this process and the one that the program began in.
  static std::uint32_t forks() noexcept;
  [[noreturn]] static void refuse(const std::string& thing, const char* remedy);

  std::uint32_t forks_;
};

/// Never destroys `object`. A leak checker finds it, unless memory is exhausted.
void keep_forever(void* object) noexcept;

/// An object with threads or locks, which only the process that makes it destroys: a destructor
/// would wait for threads that do not exist in a child, or for locks that they held when it was
/// forked. A child keeps its copy.
template <typename T, typename... Arguments>
std::shared_ptr<T> make_for_this_process(Arguments&&... arguments) {
  return {new T(std::forward<Arguments>(arguments)...), [process = OwnProcess()](T* object) {
            process.is_this() ? delete object : keep_forever(object);
          }};
}

}  // namespace ddprun

# Renames the symbols of Boost in ARCHIVE, an installed one, from boost:: to ddprun_boost:: (NM and OBJCOPY name the programs
# of binutils or LLVM). Boost's functions are inline, so they are weak: the linker of a program with a Boost of its own would
# otherwise take one version's function for the other's. The archives of the build are left alone, as the project's other
# libraries pass types of Boost to them; a macro that renames the namespace breaks Boost's computed includes. Symbols of the
# standard library are left alone unless they are instantiated with types of Boost. Running it again changes nothing.
execute_process(COMMAND ${NM} -P ${ARCHIVE} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)[^ \n]*boost[^ \n]* " symbols "${output}")
list(TRANSFORM symbols STRIP)
list(REMOVE_DUPLICATES symbols)
set(renames "")
foreach(symbol IN LISTS symbols)
  # Mangled names hold the length of each part.
  string(REPLACE 5boost 12ddprun_boost renamed "${symbol}")
  string(REGEX REPLACE "^boost_" ddprun_boost_ renamed "${renamed}")
  if(NOT renamed STREQUAL symbol)
    string(APPEND renames "${symbol} ${renamed}\n")
  endif()
endforeach()
file(WRITE ${ARCHIVE}.renames "${renames}")
execute_process(COMMAND ${OBJCOPY} --redefine-syms=${ARCHIVE}.renames ${ARCHIVE} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE ${ARCHIVE}.renames)

# Bash completion for hod: sub-commands, options, config files and the keys that can be overridden.

_hod()
{
    local commands='train plan bench eval inspect'
    local options='--help --json --resume --updates --output --view'
    local keys # those that the command itself lists
    keys=$("${COMP_WORDS[0]}" --help config 2> /dev/null | awk '/^$/ { exit } { print $1 "=" }')
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}

    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "$commands --help --version" -- "$word"))
        return
    fi
    case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *=*) ;;
    *)
        compopt -o filenames
        COMPREPLY=($(compgen -f -- "$word"))
        case $command in
        inspect) return ;;
        esac
        # The config comes first, overrides after it.
        if [ "$COMP_CWORD" -gt 2 ]; then
            compopt +o filenames -o nospace
            [ "$command" != eval ] || keys+=" checkpoint="
            COMPREPLY+=($(compgen -W "$keys" -- "$word"))
        fi
        ;;
    esac
}

complete -F _hod hod

#!/bin/sh
# Makes the small videos in test/ with ffmpeg 5.1 (libx264, libx265). README.md says what each holds.
set -eu
cd "$(dirname "$0")/test"

# make FILE FFMPEG-ARGUMENTS...: the same bytes each time, so that a changed file is a changed test.
make() {
    out=$1
    shift
    ffmpeg -hide_banner -loglevel error -y -fflags +bitexact "$@" \
        -map_metadata -1 -flags +bitexact -fflags +bitexact "$out"
}
x264="-c:v libx264 -threads 1 -pix_fmt yuv420p"
limited601="-color_range tv -colorspace smpte170m -color_primaries smpte170m -color_trc smpte170m"
limited709="-color_range tv -colorspace bt709 -color_primaries bt709 -color_trc bt709"

# Frame i: luma 16 + 8 i on the left, 128 on the right. Every two B-frames are stored after the
# frame they precede on screen, so a reader that forgets to reorder shows the wrong grey.
counter() { echo "color=black:s=64x48:r=24:d=1,format=yuv420p,geq=lum='if(lt(X,32),16+8*N,128)':cb=128:cr=128"; }
make bframes.mp4 -f lavfi -i "$(counter)" -frames:v 24 $x264 -profile:v high -bf 2 -b_strategy 0 \
    -qp 6 -x264-params scenecut=0 $limited601

# Eight patches of 16x32, the same RGB in each file:
#   red    green  blue   white
#   black  grey   orange skin
patches="color=black:s=64x64:r=24:d=1,format=gbrp"
patches="$patches,geq=r='st(0,floor(X/16)+4*floor(Y/32));255*eq(ld(0),0)+255*eq(ld(0),3)+128*eq(ld(0),5)+255*eq(ld(0),6)+200*eq(ld(0),7)'"
patches="$patches:g='st(0,floor(X/16)+4*floor(Y/32));255*eq(ld(0),1)+255*eq(ld(0),3)+128*eq(ld(0),5)+128*eq(ld(0),6)+120*eq(ld(0),7)'"
patches="$patches:b='st(0,floor(X/16)+4*floor(Y/32));255*eq(ld(0),2)+255*eq(ld(0),3)+128*eq(ld(0),5)+80*eq(ld(0),7)'"
as() { echo "$patches,scale=flags=accurate_rnd+full_chroma_int+full_chroma_inp:out_color_matrix=$1:out_range=$2,format=yuv420p"; }
main="$x264 -profile:v main -bf 0 -qp 1"
make main709.mp4 -f lavfi -i "$(as bt709 tv)" -frames:v 4 $main $limited709
make main601.mp4 -f lavfi -i "$(as smpte170m tv)" -frames:v 4 $main $limited601
make full709.mp4 -f lavfi -i "$(as bt709 pc)" -frames:v 4 $main -color_range pc -colorspace bt709 \
    -color_primaries bt709 -color_trc bt709
make untagged.mp4 -f lavfi -i "$(as smpte170m tv)" -frames:v 4 $main

# Eight frames of 64x48, then eight of 96x64, in one stream: the new size is told in the stream.
make small.h264 -f lavfi -i "$(counter)" -frames:v 8 $x264 -profile:v main -bf 0 -qp 10 -bsf:v dump_extra
make large.h264 -f lavfi -i "$(counter),scale=96:64" -frames:v 8 $x264 -profile:v main -bf 0 -qp 10 -bsf:v dump_extra
cat small.h264 large.h264 >both.h264
make resize.mp4 -f h264 -framerate 24 -i both.h264 -c copy
rm small.h264 large.h264 both.h264

# A codec that only the user's own ffmpeg reads.
make hevc.mp4 -f lavfi -i "$(counter)" -frames:v 8 -c:v libx265 -pix_fmt yuv420p -tag:v hvc1 \
    -x265-params "log-level=none:pools=1:frame-threads=1:info=0:bframes=0"

# Shown at 0, 40, 80, 200, 240 and 500 ms.
times="if(lt(N,3),40*N,if(lt(N,5),200+40*(N-3),500))/1000/TB"
make vfr.mp4 -f lavfi -i "$(counter),settb=1/1000,setpts='$times'" -frames:v 6 -fps_mode passthrough \
    -enc_time_base 1/1000 -video_track_timescale 1000 $x264 -profile:v main -bf 0 -qp 10 $limited601

# Quarters: red, green above blue, white, as stored; to be shown turned a quarter clockwise.
quarters="color=black:s=64x48:r=24:d=1,format=gbrp,geq=r='255*(lt(X,32)*lt(Y,24)+gte(X,32)*gte(Y,24))'"
quarters="$quarters:g='255*gte(X,32)':b='255*gte(Y,24)',scale=out_color_matrix=smpte170m:out_range=tv,format=yuv420p"
make upright.mp4 -f lavfi -i "$quarters" -frames:v 4 $x264 -profile:v main -bf 0 -qp 1 $limited601
make rotate.mp4 -i upright.mp4 -c copy -metadata:s:v:0 rotate=270
rm upright.mp4

# Sound comes first in the file, so the video is not track number one.
make audio.mp4 -f lavfi -i "sine=frequency=440:duration=0.5:sample_rate=8000" -f lavfi -i "$(counter)" \
    -map 0:a -map 1:v -frames:v 12 -c:a aac -b:a 8k $x264 -profile:v main -bf 0 -qp 10 $limited601

# Four frames of 100 ms: a red 8x8 square on blue, at x = 0, 8, 16, 24 and y = 8. All but the first
# are stored as the part that changed, with transparent pixels where nothing did.
square="color=0x0000ff:s=32x24:r=10:d=1,format=gbrp,geq=r='255*between(X,8*N,8*N+7)*between(Y,8,15)'"
square="$square:g=0:b='255*(1-between(X,8*N,8*N+7)*between(Y,8,15))',trim=end_frame=4"
make anim.gif -f lavfi -i "$square,split[a][b];[a]palettegen=max_colors=4:reserve_transparent=1[p];[b][p]paletteuse=dither=none" \
    -gifflags +offsetting+transdiff -loop 0
